"""Fuzzing: random cases of all that users can give to the package, and what must be true of the answers.

strategies    hypothesis strategies for cases; a case is plain data whose repr makes it again
builders      cases as users would write them, and what does not belong
checks        one function for each kind of case: the answer is right, or a documented exception is raised
"""
