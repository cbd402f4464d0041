"""The Python front door: a pipeline said in Python becomes the same frozen model as a file."""
