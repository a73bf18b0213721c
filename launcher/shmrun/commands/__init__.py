"""`shmrun doctor`, `warm`, `ps` and `inspect`."""
