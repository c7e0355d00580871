"""Fuzzing: random cases of all inputs that users can give to the package, and the conditions that results must meet.

strategies    hypothesis strategies for cases; a case is plain data, and its repr recreates it
builders      cases as users would write them, with valid and invalid input
checks        one function for each kind of case: the result is correct, or a documented exception is raised
"""
