from hardening.mutation import MAX_BYTES, MUTATIONS, ByteSource, make_case

SEEDS = [b"text,label\ngood,pos\n", b"a,b\n1,2\n"]


def test_a_case_is_determined_by_its_seed_and_number() -> None:
    cases = [make_case(SEEDS, [b"word"], 3, number) for number in range(200)]

    assert cases == [make_case(SEEDS, [b"word"], 3, number) for number in range(200)]
    assert cases[2:] != [make_case(SEEDS, [b"word"], 4, number) for number in range(2, 200)]


def test_the_first_cases_are_the_seed_inputs_and_the_others_differ_from_them() -> None:
    cases = [make_case(SEEDS, [], 0, number) for number in range(300)]

    assert cases[:2] == SEEDS
    assert len({*cases[2:]} - {*SEEDS}) > 200
    assert max(map(len, cases)) <= MAX_BYTES


def test_every_mutation_accepts_an_empty_input() -> None:
    import random

    for mutate in MUTATIONS:
        data = bytearray()

        mutate(random.Random(0), data, [])

        assert len(data) <= 16


def test_decisions_follow_the_bytes_and_go_on_after_their_end() -> None:
    source = ByteSource(b"\x05\x02")

    assert source.number(4) == 1
    assert source.choice("abc") == "c"
    rest = [source.number(1000) for _ in range(20)]
    assert len(set(rest)) > 10
    again = ByteSource(b"\x05\x02")
    assert [again.number(4), again.number(3)] == [1, 2]
    assert [again.number(1000) for _ in range(20)] == rest
