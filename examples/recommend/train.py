"""Trains the recommender offline, on past purchases, and stores it next to this file: python train.py"""

from __future__ import annotations

from pathlib import Path

import joblib
from sklearn.tree import DecisionTreeClassifier

FEATURES = ("Age", "Visits", "Bought")
MODEL = Path(__file__).with_name("recommender.joblib")

# Age, visits this month, purchases so far -> what people like that bought next.
PAST = [
    ((19, 12, 0), "headphones"),
    ((22, 30, 1), "headphones"),
    ((24, 18, 2), "headphones"),
    ((21, 2, 0), "backpack"),
    ((26, 3, 1), "backpack"),
    ((41, 14, 6), "coffee machine"),
    ((38, 22, 9), "coffee machine"),
    ((45, 17, 4), "coffee machine"),
    ((52, 2, 1), "garden tools"),
    ((63, 4, 2), "garden tools"),
    ((58, 3, 0), "garden tools"),
]


def main() -> None:
    """Train the model and store it."""
    model = DecisionTreeClassifier(max_depth=3, random_state=7)
    model.fit([list(features) for features, _ in PAST], [product for _, product in PAST])
    joblib.dump(model, MODEL)
    print(f"{MODEL.name}: {model.get_n_leaves()} leaves, {len(model.classes_)} products")


if __name__ == "__main__":
    main()
