"""The subcommands `shmbench NAME`, and the table of one collective."""
