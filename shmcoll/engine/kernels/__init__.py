"""Element types and operators, element-wise reduction, block copies: no synchronisation."""
