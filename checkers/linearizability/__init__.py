"""Was there one order of the operations, each taking effect between its call and its return, that the object allows?

`calls` are operations as columns; `monitors` decide the common objects in near-linear time where values are distinct;
`porcupine` searches for everything else; `planner` chooses, and says who decided.
"""
