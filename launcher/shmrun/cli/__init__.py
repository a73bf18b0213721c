"""What is wanted: the command line, the environment, pyproject.toml, help."""
