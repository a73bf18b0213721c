"""What is to be measured: the command line."""
