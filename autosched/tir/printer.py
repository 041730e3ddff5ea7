"""placeholder until the printer lands"""


def to_text(node: object) -> str:
    return object.__repr__(node)
