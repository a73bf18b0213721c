"""Facts from Linux: cores, control groups, processes, descriptors, files that can be trusted."""
