"""Spark's collations, by name; a test compares them with those of the installed Spark."""

from __future__ import annotations

from collections.abc import Sequence

_BINARY = ("UTF8_BINARY", "UTF8_LCASE")
_LOCALES = """
UNICODE af am ar ar_SAU as az be bg blo bn bo br bs bs_Cyrl ca ceb chr cs cy da de de_AUT dsb dz ee el en en_USA eo
es et fa fa_AFG ff ff_Adlm fi fil fo fr fr_CAN fy ga gl gu ha haw he he_ISR hi hr hsb hu hy id id_IDN ig is it ja ka
kk kk_Arab kl km kn ko kok ku ky lb lij lkt ln lo lt lv mk ml mn mr ms mt my nb nb_NOR ne nl nn no nso om or pa
pa_Guru pa_Guru_IND pl ps pt ro ru sa se si sk sl smn sq sr sr_Cyrl sr_Cyrl_BIH sr_Cyrl_MNE sr_Cyrl_SRB sr_Latn
sr_Latn_BIH sr_Latn_SRB st sv sw ta te th tk tn to tr ug uk ur uz vi wae wo xh yi yo zh zh_Hans zh_Hans_CHN
zh_Hans_SGP zh_Hant zh_Hant_HKG zh_Hant_MAC zh_Hant_TWN zu
"""
BASES = (*_BINARY, *_LOCALES.split())
"""The names without modifiers."""
_BY_UPPER = {name.upper(): name for name in BASES}
_GROUPS = {"CS": 0, "CI": 0, "AS": 1, "AI": 1, "RTRIM": 2}
"""Modifiers; a name has at most one of each group, in any order."""
_WRITTEN = ("CI", "AI", "RTRIM")
"""The modifiers that are not defaults, in Spark's order."""
_SCHEMA = ["SYSTEM", "BUILTIN"]
COMMON = ("UTF8_BINARY", "UTF8_LCASE", "UNICODE", "UNICODE_CI", "UNICODE_AI", "UNICODE_CI_AI")
"""For suggestions."""


def find_collation(parts: Sequence[str]) -> str | None:
    """The collation that a name, in parts, means, as Spark writes it; None if Spark has none."""
    *schema, name = (part.upper() for part in parts)
    if schema not in ([], _SCHEMA):
        return None
    words = name.split("_")
    sizes = range(len(words), 0, -1)
    size = next((size for size in sizes if "_".join(words[:size]) in _BY_UPPER), 0)
    base, modifiers = _BY_UPPER.get("_".join(words[:size]), ""), words[size:]
    groups = [_GROUPS.get(each, -1) for each in modifiers]
    allowed = {2} if base in _BINARY else {0, 1, 2}
    if not base or len(set(groups)) < len(groups) or not allowed.issuperset(groups):
        return None
    return "_".join([base, *(each for each in _WRITTEN if each in modifiers)])
