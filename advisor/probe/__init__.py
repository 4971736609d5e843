"""The environment of a server, asked of the interpreter that the server really uses."""
