import pvm


def greet(task: pvm.Task, word: str) -> None:
    """A worker."""
    parent = task.parent()
    assert parent is not None
    task.send(parent, f"{word} from {pvm.tid_text(task.tid)}")


if __name__ == "__main__":
    # The process becomes a task, the parent.
    with pvm.enroll() as task:
        for _ in task.spawn_function(greet, "hello", count=4):
            print(task.recv())
