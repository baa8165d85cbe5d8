"""What can go wrong with names, and with topics."""

from bandstand.errors.exceptions import BandstandError

__all__ = ("CutOff", "NameTaken", "NameTimeout", "NoSuchName", "TopicClosed")


class NameTaken(BandstandError):
    """Somebody else has that name in the registry. The message says who."""

    code = -140


class NoSuchName(BandstandError, LookupError):
    """Nobody is there under that name in the registry at this moment. The message has names that are like it."""

    code = -141


class NameTimeout(BandstandError, TimeoutError):
    """Nobody has come under that name in time."""

    code = -142


class TopicClosed(BandstandError):
    """The topic is closed: nothing can be published, and nobody can subscribe any more."""

    code = -143


class CutOff(BandstandError):
    """A listener was too slow for its room, and its policy was to be cut off. Nothing more comes."""

    code = -144
