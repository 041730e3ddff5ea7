"""The tensor IR: expressions, statements, buffers, functions, and how to walk and print them."""
