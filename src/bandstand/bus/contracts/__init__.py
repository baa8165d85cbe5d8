"""The contracts of capabilities, as types: read once when a node starts.

`messages` has the base classes of messages and `capability` those of capabilities; `types` finds the messages that an annotation declares.
`codec` decodes and encodes one type of payload, `schema` writes its JSON Schema with the regular expressions of `patterns`, and
`pydantic_models` supports pydantic. `describe` documents a node for its clients.
"""
