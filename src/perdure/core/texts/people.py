"""What people read about pairing and their rights."""

from __future__ import annotations

NOT_ALLOWED = "You may not do that."


# ── who may ─────────────────────────────────────────────────────────────────────────────────────────────────


def pairing_code(code: str) -> str:
    return (
        f"I don't know you yet. Ask whoever runs me to enter: perdure pair {code}. The code is good for one hour."
    )


PAIRING_CODE_HIDDEN = "(A code to be let in with. Only the person whom it is for may see it.)"
PAIRED = "You're in. Say hello!"
ROLE_RIGHTS = {
    "owner": "You may do everything here, and restart me.",
    "member": "You may talk to me, use the commands, and approve what I ask about. Only an owner may restart me.",
    "guest": "You may talk to me, look at what is going on, and end your own work.",
}


def who_you_are(person: str, name: str, role: str, *, shared: bool, alone: bool) -> str:
    """The answer to `/whoami`: a person's role and rights, and with whom they share the conversation."""
    known = f"{name} ({person})" if name and name != person else person
    sentences = [f"You are {known}, {'an' if role == 'owner' else 'a'} {role} here.", ROLE_RIGHTS[role]]
    if not alone:
        sentences.append(
            "Everybody here shares one conversation with me."
            if shared
            else "Here you have a conversation of your own."
        )
    return " ".join(sentences)
