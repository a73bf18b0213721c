"""The options: the command line, the environment, pyproject.toml, help."""
