"""The life of a request; knows neither ASGI nor sockets."""
