"""Write a data agent: decorate functions, connect to a pool, answer calls."""
