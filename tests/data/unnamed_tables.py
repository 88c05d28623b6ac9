"""Thirty made-up tables whose column names do not tell which column holds the texts."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

WORDS = {
    "en": "the my order has not come yet please send refund for this broken thing again today why"
    " account login cannot open page error after update great service thank you very much",
    "de": "die Lieferung ist noch nicht angekommen bitte prüfen Sie das Konto und schicken Geld"
    " zurück wegen Fehler nach dem Update gut danke sehr schön",
    "ru": "мой заказ ещё не пришёл пожалуйста верните деньги за сломанный товар спасибо большое"
    " хорошо плохо ошибка после обновления",
    "ar": "طلبي لم يصل بعد أريد استرداد المال من فضلك شكرا جزيلا خدمة ممتازة خطأ بعد التحديث",
    "zh": "我的订单还没有到请尽快退款质量很差不满意谢谢服务很好更新之后出现错误无法登录账户",
    "ja": "商品がまだ届いていません返金をお願いします更新後にエラーが出ますありがとうございます",
    "th": "คำสั่งซื้อของฉันยังไม่มาถึงกรุณาคืนเงินขอบคุณมากบริการดีเกิดข้อผิดพลาดหลังอัปเดต",
}


class Case(NamedTuple):
    name: str
    rows: int
    columns: dict[str, str]  # kind of each column, by its name
    text: str
    label: str
    language: str = "en"
    words: int = 15


def unnamed_table(case: Case) -> pa.Table:
    """Make the table of a case up."""
    rng = np.random.default_rng(len(case.name) + case.rows)
    columns = {}
    for name, kind in case.columns.items():
        kind, _, argument = kind.partition(" ")
        columns[name] = KINDS[kind](rng, case, argument)
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


Values = list[str | None]


def texts(rng: np.random.Generator, case: Case, words: str) -> Values:
    pool = WORDS[case.language].split()
    if len(pool) == 1 or case.language in ("zh", "ja", "th"):
        pool = list(WORDS[case.language])
        return ["".join(rng.choice(pool, int(words or 25))) for _ in range(case.rows)]
    mean = int(words or case.words)
    sizes = rng.integers(max(mean // 2, 1), 2 * mean, case.rows)
    return [" ".join(rng.choice(pool, size)) for size in sizes]


def labels(rng: np.random.Generator, case: Case, names: str) -> Values:
    return [str(name) for name in rng.choice(names.split("/"), case.rows)]


def ids(rng: np.random.Generator, case: Case, prefix: str) -> Values:
    return [f"{prefix}{number}" for number in rng.permutation(case.rows) + 1000]


def dates(rng: np.random.Generator, case: Case, _: str) -> Values:
    return [f"2026-{m:02}-{d:02} 10:00" for m, d in rng.integers(1, 13, (case.rows, 2))]


def prices(rng: np.random.Generator, case: Case, _: str) -> Values:
    return [f"{value:.2f}" for value in rng.choice([4.99, 9.99, 19.99, 49.99], case.rows)]


def people(rng: np.random.Generator, case: Case, _: str) -> Values:
    first, last = ["Ann", "Bob", "Cem", "Dana", "Eve"], ["Smith", "Jones", "Li", "Kaya", "Novak"]
    return [f"{rng.choice(first)} {rng.choice(last)} {n}" for n in range(case.rows)]


def customers(rng: np.random.Generator, case: Case, _: str) -> Values:
    return [f"customer-{n}" for n in rng.integers(0, case.rows // 3, case.rows)]


def links(rng: np.random.Generator, case: Case, _: str) -> Values:
    return [f"https://example.org/t/{n}?x={rng.integers(10**9)}" for n in range(case.rows)]


def constants(_: np.random.Generator, case: Case, value: str) -> Values:
    return [value] * case.rows


def gaps(rng: np.random.Generator, case: Case, _: str) -> Values:
    return [None if rng.random() < 0.8 else "x y" for _ in range(case.rows)]


KINDS: dict[str, Callable[[np.random.Generator, Case, str], Values]] = {
    "text": texts, "label": labels, "id": ids, "date": dates, "price": prices, "person": people,
    "customer": customers, "link": links, "constant": constants, "gaps": gaps,
}  # fmt: skip

TABLES = [
    Case("two columns", 100, {"a": "text", "b": "label pos/neg"}, "a", "b"),
    Case("label first", 100, {"c0": "label pos/neg", "c1": "text"}, "c1", "c0"),
    Case("numbers as labels", 100, {"x": "text", "v": "label 0/1"}, "x", "v"),
    Case("five stars", 200, {"q1": "text", "q2": "label 1/2/3/4/5"}, "q1", "q2"),
    Case("id", 100, {"n": "id T-", "a": "text", "b": "label x/y/z"}, "a", "b"),
    Case("number as id", 100, {"n": "id", "a": "text", "b": "label x/y/z"}, "a", "b"),
    Case("date", 100, {"d": "date", "a": "text", "b": "label x/y"}, "a", "b"),
    Case("date and id", 100, {"d": "date", "n": "id", "a": "text", "b": "label x/y"}, "a", "b"),
    Case("price", 100, {"p": "price", "a": "text", "b": "label x/y"}, "a", "b"),
    Case("person", 100, {"p": "person", "a": "text", "b": "label x/y"}, "a", "b"),
    Case("customer", 200, {"k": "customer", "a": "text", "b": "label x/y/z"}, "a", "b"),
    Case("link", 100, {"l": "link", "a": "text", "b": "label x/y"}, "a", "b"),
    Case("constant", 100, {"k": "constant en", "a": "text", "b": "label x/y"}, "a", "b"),
    Case("mostly empty", 100, {"g": "gaps", "a": "text", "b": "label x/y"}, "a", "b"),
    Case("short texts", 100, {"a": "text 3", "b": "label x/y"}, "a", "b"),
    Case("one word texts", 100, {"n": "id w", "b": "label x/y"}, "n", "b"),
    Case("long texts", 60, {"a": "text 300", "b": "label x/y"}, "a", "b"),
    Case("title and body", 80, {"t": "text 4", "a": "text 40", "b": "label x/y"}, "a", "b"),
    Case("many labels", 600, {"a": "text", "b": f"label {'/'.join('abcdefghijklmnopqrs')}"}, "a",
         "b"),
    Case("labels of two words", 100, {"a": "text", "b": "label very good/very bad"}, "a", "b"),
    Case("forty rows", 40, {"a": "text", "b": "label x/y/z/w"}, "a", "b"),
    Case("twelve rows", 12, {"a": "text", "b": "label x/y"}, "a", "b"),
    Case("german", 100, {"spalte1": "text", "spalte2": "label gut/schlecht"}, "spalte1",
         "spalte2", "de"),
    Case("german names", 100, {"Nr": "id", "Inhalt": "text", "Art": "label A/B/C"}, "Inhalt",
         "Art", "de"),
    Case("russian", 100, {"столбец1": "text", "столбец2": "label да/нет"}, "столбец1", "столбец2",
         "ru"),
    Case("arabic", 100, {"a": "text", "b": "label نعم/لا"}, "a", "b", "ar"),
    Case("chinese", 100, {"c1": "id", "c2": "text", "c3": "label 好评/差评"}, "c2", "c3", "zh"),
    Case("japanese", 100, {"c1": "text", "c2": "label 配送/請求"}, "c1", "c2", "ja"),
    Case("thai", 100, {"c1": "text", "c2": "label ดี/แย่"}, "c1", "c2", "th"),
    Case("everything", 300, {"n": "id T-", "d": "date", "p": "person", "k": "customer",
         "l": "link", "e": "constant 1", "a": "text", "pr": "price", "b": "label x/y/z"}, "a", "b"),
]  # fmt: skip

assert len(TABLES) == 30
