"""Recipes: TOML files with the tables ``[text]``, ``[model]``, ``[training]`` and ``[ngrams]``.

A recipe may start from another one (``extends = "paper"``) and then states only what differs.
"""

import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path

from lamatext.errors import ConfigError
from lamatext.settings import MODEL_NAMES, USED_BY, Recipe, did_you_mean, has_effect, validated


def load_recipe(source: str | Recipe, *, model: str | None = None) -> Recipe:
    """The recipe of that name (``default``, ``paper``, a model's), in that TOML file, or as given.

    Where ``model`` is another than the recipe's own, what the model's own recipe states is laid
    over it: a Transformer brings its width, ``lama-ctx-dp`` its λ, ``bert`` its rate.
    """
    if model is not None and model not in MODEL_NAMES:
        raise ConfigError(
            f"unknown model {model!r}.{did_you_mean(model, MODEL_NAMES)} "
            f"Known: {', '.join(MODEL_NAMES)}."
        )
    recipe = source if isinstance(source, Recipe) else _read_recipe(source)
    if model is None or model == recipe.model.name:
        return recipe
    own = _read_toml(model)
    own.pop("extends", None)
    where = "the recipe" if isinstance(source, Recipe) else f"recipe {source}"
    return validated(_merged(recipe.model_dump(), own), f"{where} with model {model}")


def resolve_recipe(
    *,
    model: str | None = None,
    recipe: str | Recipe | None = None,
    values: Mapping[str, object] | None = None,
    where: str = "--set",
) -> Recipe:
    """What a model, a recipe and some settings, each of which may be left out, come to."""
    source = recipe or ("default" if model is None else "paper")
    values = values or {}
    resolved = load_recipe(source, model=model).with_values(values, where=where)
    _check_used(values, resolved, where)
    return resolved


def recipe_names() -> list[str]:
    """The recipes that ship with lamatext."""
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in files("lamatext").joinpath("recipes").iterdir()
        if entry.name.endswith(".toml")
    )


def parse_assignments(pairs: Iterable[str]) -> dict[str, object]:
    """``["model.heads=8"]`` as a mapping, values read as TOML and otherwise as plain text."""
    values: dict[str, object] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {pair}: expected key=value, for example model.heads=8.")
        values[key.strip()] = _toml_value(text.strip())
    return values


def _toml_value(text: str) -> object:
    if text.lower() == "none":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _read_recipe(name: str) -> Recipe:
    """A recipe with all that it extends; what it states itself must matter to its own model."""
    where = f"recipe {name}"
    recipe = validated(_read_tree(name), where)
    stated = _read_toml(name).get("model")
    if isinstance(stated, Mapping):
        _check_used((f"model.{setting}" for setting in stated), recipe, where)
    return recipe


def _check_used(names: Iterable[str], recipe: Recipe, where: str) -> None:
    """Raise at the first of these settings that has no effect in the recipe's system."""
    model = recipe.model.name
    for name in names:
        if not has_effect(name, model):
            raise ConfigError(
                f"{where}: {name} has no effect in {model}, only in {', '.join(USED_BY[name])}. "
                "Leave it out, or choose one of these models."
            )


def _read_tree(name: str, above: tuple[str, ...] = ()) -> dict[str, object]:
    if name in above:
        raise ConfigError(f"{name}: extends itself ({' → '.join((*above, name))}).")
    tree = _read_toml(name)
    base = tree.pop("extends", None)
    if base is None:
        return tree
    beside = Path(name).parent / str(base)  # a file is looked for beside the one that names it
    base = str(beside) if beside.suffix == ".toml" else str(base)
    return _merged(_read_tree(base, (*above, name)), tree)


def _read_toml(name: str) -> dict[str, object]:
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise ConfigError(f"{name}: no such recipe file.")
        text = path.read_text(encoding="utf-8", errors="replace")
    elif name in recipe_names():
        text = files("lamatext").joinpath(f"recipes/{name}.toml").read_text(encoding="utf-8")
    else:
        known = recipe_names()
        raise ConfigError(
            f"unknown recipe {name!r}.{did_you_mean(name, known)} "
            f"Known: {', '.join(known)}, or a path to a .toml file."
        )
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: not valid TOML: {error}.") from error


def _merged(base: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    tree = dict(base)
    for key, value in over.items():
        below = tree.get(key)
        tree[key] = (
            _merged(below, value)
            if isinstance(below, Mapping) and isinstance(value, Mapping)
            else value
        )
    return tree
