"""One rank at work: dispatching native calls, asynchronous work, groups, failures made exceptions."""
