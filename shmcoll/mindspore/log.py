"""`mindspore.log`: what programs log, through Python's `logging`. Warnings and what is worse go to stderr."""

import logging

_logger = logging.getLogger("mindspore")

debug, info, warning = _logger.debug, _logger.info, _logger.warning
error, critical = _logger.error, _logger.critical

__all__ = ["critical", "debug", "error", "info", "warning"]
