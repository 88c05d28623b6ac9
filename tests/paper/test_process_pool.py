"""The process pool: order, shared caches, failures and the time limit."""

from dataclasses import dataclass

from paper.process_pool import _startable, run_jobs


@dataclass(frozen=True)
class Job:
    name: str
    cache_key: str | None = None


def test_jobs_that_share_a_cache_wait_for_the_first_of_them() -> None:
    jobs = [Job("a1", "a"), Job("a2", "a"), Job("b1", "b"), Job("free"), Job("free too")]

    first = list(_startable(jobs, [], set(), workers=4))
    later = list(_startable(jobs[1:2], [Job("b1", "b")], {"a"}, workers=2))

    assert [job.name for job in first] == ["a1", "b1", "free", "free too"]
    assert [job.name for job in later] == ["a2"]


def test_a_result_can_make_further_jobs_possible_and_a_failure_stops_only_its_job() -> None:
    results: dict[Job, int] = {}
    reports: list[str] = []

    def pending() -> list[Job]:
        later = [Job("second")] if Job("first") in results else []
        return [job for job in (Job("broken"), Job("first"), *later) if job not in results]

    def work(job: Job) -> int:
        if job.name == "broken":
            raise ValueError("no data")
        return len(job.name)

    run_jobs(pending, work, results.__setitem__, workers=1, report=reports.append)

    assert results == {Job("first"): 5, Job("second"): 6}
    assert reports[0].startswith("FAILED Job(name='broken'")
    assert reports[-1] == "0 jobs remain, 1 failed"
