"""Was there one order of the operations, each taking effect between its call and its return, that the object allows?

`calls` are operations as columns; `porcupine` searches for an order; `shrink` makes what failed as short as can be.
"""
