"""Bytes to Structs and back: what each dialect says, with no opinion. Pure."""
