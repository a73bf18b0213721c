"""What `shmbench NAME` runs beside the table of one collective."""
