"""What Linux tells: cores, control groups, processes, descriptors, files that can be trusted."""
