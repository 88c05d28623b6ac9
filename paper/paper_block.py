"""The part of the project's README on the paper, from the records."""

from lamatext.baselines import BASELINES
from paper.accuracy_tables import best_on_validation, systems_with_baselines
from paper.intervals import scores
from paper.published import DATASETS
from paper.published import accuracy as published
from paper.records import Results
from paper.tables import heading, markdown, share, title


def paper_block(results: Results) -> str:
    """The paper's systems by its protocol, ours beside the published values, and two figures."""
    rows = [
        [title(system), *(_beside(results, dataset, system) for dataset in DATASETS)]
        for system in systems_with_baselines()
    ]
    return "\n".join(
        [
            "## The paper, computed again",
            "",
            "Test accuracy of the seed that is best on validation, and after the stroke the "
            "published value. `news` has headlines where the paper had articles, and the clothing "
            "reviews stand in for Yelp's: only `r8` and `imdb` are like for like. The published "
            "values beside MiniLM are bert-base's. `lamatext reproduce NAME` computes any table or "
            "figure; [results/README.md](results/README.md) has all of them, with means, spreads, "
            "intervals and what they show in words.",
            "",
            markdown(["ours / paper", *map(heading, DATASETS)], rows),
            "",
            "![Validation accuracy over epochs by number of heads](results/figures/heads.png)",
            "",
            "![Accuracy against parameters](results/figures/params-vs-accuracy.png)",
        ]
    )


def _beside(results: Results, dataset: str, system: str) -> str:
    if system in BASELINES:
        return share(next((record.number for record in scores(results, dataset, system)), None))
    ours, paper = best_on_validation(results, dataset, system), published(system, dataset)
    return share(ours) if paper is None else f"{share(ours)} / {share(paper)}"
