"""The pipeline: from the histories of a store to its tables, as jobs of Spark. PySpark is imported nowhere else."""
