"""How long a test waits for what must come."""

#: Seconds after which a process that has not ended counts as stuck: many times what any of them takes, because a rank
#: that waits for others gets its turn late on a machine that computes something else. No promise is tested by it.
PATIENCE = 120.0
