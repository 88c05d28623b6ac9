"""Recipes: named sets of settings in TOML files.

``default`` is lamatext's own recipe, ``paper`` that of the paper for its proposed model LAMA+ctx,
and ``paper/NAME`` that of the paper for another system. A recipe file may build on another recipe
(``extends = "paper"``) and then lists only the settings that differ.
"""

import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path

from lamatext.errors import ConfigError
from lamatext.settings import (
    MODEL_NAMES,
    USED_BY,
    Recipe,
    did_you_mean,
    has_effect,
    parse_settings,
    setting_names,
)


def load_recipe(source: str | Recipe) -> Recipe:
    """Load a recipe by name (``default``, ``paper``, ``paper/san``) or from a TOML file."""
    if isinstance(source, Recipe):
        return source
    where = f"recipe {source}"
    recipe = parse_settings(_read_recipe_tree(source), where)
    stated = _read_toml(source).get("model")
    if isinstance(stated, Mapping):
        _check_effect((f"model.{setting}" for setting in stated), recipe, where)
    return recipe


def replace_network(recipe: Recipe, model: str) -> Recipe:
    """Replace the network of a recipe, leaving training and n-gram settings unchanged.

    The network's own sizes and its text settings are those of the paper's recipe for it (a
    Transformer needs its embedding width, ``lama-ctx-dp`` its λ). A pretrained encoder (``bert``)
    also needs its own optimizer settings: another network's learning rate would ruin its weights.
    """
    if model not in MODEL_NAMES:
        raise ConfigError(
            f"unknown model {model!r}.{did_you_mean(model, MODEL_NAMES)} "
            f"Known: {', '.join(MODEL_NAMES)}."
        )
    if model == recipe.model.name:
        return recipe
    own = _read_toml(f"paper/{model}")
    tables = ("text", "model", "training") if model == "bert" else ("text", "model")
    tree = _merge(recipe.model_dump(), {name: own[name] for name in tables if name in own})
    return parse_settings(tree, f"the recipe with model {model}")


def resolve_recipe(
    *,
    model: str | None = None,
    recipe: str | Recipe | None = None,
    values: Mapping[str, object] | None = None,
    where: str = "--set",
) -> Recipe:
    """Build a recipe from a base recipe, an optional network and individual settings.

    Args:
        model: the name of a system; None keeps the recipe's.
        recipe: a recipe's name, TOML file or the recipe itself; None is the default recipe.
        values: settings by dotted name; they take precedence.
        where: the origin of ``values``, for error messages.
    """
    base = load_recipe(recipe or "default")
    if model is not None:
        base = replace_network(base, model)
    values = values or {}
    resolved = base.with_values(values, where=where)
    _check_effect(values, resolved, where)
    return resolved


LEARNING_RATE_SHARE = 0.25  # of the rate of the first training, when a model is continued
MAX_CONTINUED_EPOCHS = 4
MAY_CHANGE = {
    *(name for name in setting_names() if name.startswith(("training.", "text.word2vec_"))),
    *("seed", "storage", "text.word_vectors", "text.min_count"),
    *("model.dropout", "model.embedding_dropout", "model.disagreement_weight"),
    *("ngrams.svm_c", "ngrams.max_megabytes"),
    *("distillation.variants", "distillation.teachers"),
}
"""Settings that may change when a model is continued; the others are part of the model."""


def continue_recipe(
    recipe: Recipe, values: Mapping[str, object], *, again: bool, where: str = "--set"
) -> Recipe:
    """Build the recipe for continuing a trained model on new data.

    The settings of the trained model are kept, except for a lower learning rate and fewer epochs,
    so that the model forgets little of what it has learned.

    Args:
        recipe: the settings of the trained model.
        values: settings by dotted name, which take precedence.
        again: whether the model continued another one, so that its settings have these changes.
        where: the origin of ``values``, for error messages.
    """
    training = recipe.training
    slower: dict[str, object] = {}
    if not again:
        epochs = training.epochs if isinstance(training.epochs, int) else MAX_CONTINUED_EPOCHS
        slower["training.learning_rate"] = LEARNING_RATE_SHARE * training.learning_rate
        slower["training.epochs"] = min(epochs, MAX_CONTINUED_EPOCHS)
    changed = resolve_recipe(recipe=recipe, values={**slower, **values}, where=where)
    old, new = recipe_values(recipe), recipe_values(changed)
    for name in old.keys() - MAY_CHANGE:
        if old[name] != new[name]:
            raise ConfigError(
                f"{where}: {name} is {old[name]} in the model to continue and cannot become "
                f"{new[name]}. Leave it out, or train a new model without --from."
            )
    return changed


def changeable_values(recipe: Recipe) -> dict[str, object]:
    """Return the recipe settings that may change when the training of a model is continued."""
    name = recipe.model.name
    values = recipe_values(recipe).items()
    return {key: value for key, value in values if key in MAY_CHANGE and has_effect(key, name)}


def recipe_values(recipe: Recipe) -> dict[str, object]:
    """Return all settings of a recipe as a dictionary with dotted names as keys."""
    values: dict[str, object] = {}
    for name, value in recipe.model_dump().items():
        if isinstance(value, dict):
            values |= {f"{name}.{key}": entry for key, entry in value.items()}
        else:
            values[name] = value
    return values


def recipe_names() -> list[str]:
    """Return the names of the recipes that are included in lamatext."""
    folder = files("lamatext").joinpath("recipes")
    return [
        f"{prefix}{entry.name.removesuffix('.toml')}"
        for prefix, place in (("", folder), ("paper/", folder.joinpath("paper")))
        for entry in sorted(place.iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".toml")
    ]


def parse_assignments(pairs: Iterable[str]) -> dict[str, object]:
    """Parse changes of a recipe's settings (``--set model.heads=8``); values are TOML or text."""
    values: dict[str, object] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--set {pair}: expected key=value, for example model.heads=8.")
        values[name.strip()] = _parse_toml_value(text.strip())
    return values


def _parse_toml_value(text: str) -> object:
    if text.lower() == "none":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # not TOML, a huge number, or nested too deeply
        return text


def _check_effect(names: Iterable[str], recipe: Recipe, where: str) -> None:
    """Raise ConfigError if any of the given settings has no effect on the recipe's network."""
    model = recipe.model.name
    for name in names:
        if not has_effect(name, model):
            raise ConfigError(
                f"{where}: {name} has no effect in {model}, only in {', '.join(USED_BY[name])}. "
                "Leave it out, or choose one of these models."
            )


def _read_recipe_tree(name: str, extending: tuple[str, ...] = ()) -> dict[str, object]:
    """Read a recipe file and the recipes that it extends, and merge their settings."""
    if name in extending:
        raise ConfigError(f"{name}: extends itself ({' → '.join((*extending, name))}).")
    tree = _read_toml(name)
    base = tree.pop("extends", None)
    if base is None:
        return tree
    neighbour = Path(name).parent / str(base)  # a file name is relative to the file that names it
    base = str(neighbour) if neighbour.suffix == ".toml" else str(base)
    return _merge(_read_recipe_tree(base, (*extending, name)), tree)


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
        hint = " For one of the paper's systems: " if name in MODEL_NAMES else ""
        hint = f"{hint}paper/{name}." if hint else did_you_mean(name, known)
        raise ConfigError(
            f"unknown recipe {name!r}.{hint} Known: {', '.join(known)}, or a path to a .toml file."
        )
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also a huge number, or nested too deeply
        raise ConfigError(f"{name}: not valid TOML: {error}.") from error


def _merge(base: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    """Merge two trees of recipe settings; values in ``changes`` take precedence."""
    tree = dict(base)
    for name, value in changes.items():
        below = tree.get(name)
        tree[name] = (
            _merge(below, value)
            if isinstance(below, Mapping) and isinstance(value, Mapping)
            else value
        )
    return tree
