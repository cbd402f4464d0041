"""Each known attack on the page, tried and rejected. The numbers are those of the security list."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.page.conftest import Site
from tests.unit.page.requests import raw, request

from penstock.errors import CallError
from penstock.page.app import _find_trust_problem
from penstock.page.guard import MAX_BODY_BYTES, PageToken, new_token, token_file
from penstock.page.server import Endpoint, ServedPage, serve


def test_s1_the_page_listens_on_loopback_only_and_any_other_address_needs_tls(site: Site):
    listening = [each.laddr for each in psutil.Process().net_connections("tcp") if each.status == psutil.CONN_LISTEN]

    assert {address.ip for address in listening if address.port == site.port} == {"127.0.0.1"}
    with pytest.raises(CallError, match="in plain text; give --cert and --key"):
        Endpoint("0.0.0.0")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.com:{port}", 403),
        ("127.0.0.1.evil.com:{port}", 403),
        ("localhost.evil.com", 403),
        ("127.0.0.1", 403),
        ("127.0.0.1:1", 403),
        ("user@127.0.0.1:{port}", 403),
        ("", 403),
        ("localhost:{port}", 200),
        ("LOCALHOST:{port}", 200),
        ("[::1]:{port}", 200),
    ],
)
def test_s3_only_host_names_of_this_machine_are_accepted(site: Site, host: str, status: int):
    assert request(site.port, "/", host=host.format(port=site.port)).status == status


def test_s3_no_host_two_hosts_and_absolute_urls_are_rejected(site: Site):
    ours = f"Host: 127.0.0.1:{site.port}\r\n"

    assert raw(site.port, b"GET / HTTP/1.0\r\n\r\n").status == 400
    assert raw(site.port, b"GET / HTTP/1.1\r\n\r\n").status == 400
    assert raw(site.port, f"GET / HTTP/1.1\r\n{ours}{ours}\r\n".encode()).status == 400
    assert raw(site.port, f"GET http://evil.com/ HTTP/1.1\r\n{ours}\r\n".encode()).status == 400
    assert (
        raw(
            site.port, f"GET / HTTP/1.1\r\n{ours}X-Forwarded-Host: evil.com\r\nConnection: close\r\n\r\n".encode()
        ).status
        == 200
    )


EXPLORE = {"pipeline": "trades", "sql": "SELECT 1"}


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.com"},
        {"origin": "null"},
        {"origin": "http://localhost.evil.com"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"x_penstock_csrf": None},
        {"x_penstock_csrf": "0" * 64},
    ],
)
def test_s4_a_post_from_another_site_is_rejected(site: Site, headers: dict[str, str | None]):
    assert site.post("/api/explore", EXPLORE, **headers).status == 403


def test_s4_forms_and_text_are_rejected_and_get_changes_nothing(site: Site):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert site.post("/api/explore", EXPLORE, content_type=kind).status == 400
    assert site.get("/api/explore").status == 405
    assert site.get("/api/explore/x/stop").status == 405
    assert request(site.port, "/login").status == 405
    assert request(site.port, "/", "DELETE").status == 405
    assert request(site.port, "/", "OPTIONS", origin="http://evil.com").status == 405


@pytest.mark.parametrize("path", ["/metrics", "/api/session", "/api/stream", "/api/explore/x"])
def test_s5_nothing_is_shown_without_the_token(site: Site, path: str):
    swapped = site.token.swapcase()

    for given in (None, "", "Bearer", "Bearer ", f"Bearer {swapped}", f"Bearer {site.token}x", f"Basic {site.token}"):
        assert request(site.port, path, authorization=given).status == 401
    assert request(site.port, f"{path}?token={site.token}").status == 401
    assert request(site.port, path, cookie=f"penstock-{site.port}=wrong").status == 401
    assert request(site.port, path, cookie=f"penstock-1={site.token}").status == 401


def test_s5_the_token_is_exchanged_for_a_cookie_that_scripts_and_other_sites_cannot_use(site: Site):
    body = f'{{"token": "{site.token}"}}'.encode()

    answer = request(site.port, "/login", "POST", body, content_type="application/json")
    cookie = answer.headers["set-cookie"]

    assert answer.status == 200
    assert "httponly" in cookie.lower()
    assert "samesite=strict" in cookie.lower()
    assert request(site.port, "/api/session", cookie=cookie.partition(";")[0]).status == 200
    for wrong in (b"{}", b"[]", b"{", b'{"token": ""}', b'{"token": 1}', b"[" * 50_000):
        assert request(site.port, "/login", "POST", wrong, content_type="application/json").status == 401


def test_s5_the_token_is_long_and_compared_in_constant_time():
    import inspect

    token = new_token()

    assert len(token) >= 43
    assert token != new_token()
    assert "compare_digest" in inspect.getsource(PageToken.matches)
    assert not PageToken(token).matches("")


def test_s5_each_run_has_a_new_token_in_a_private_file_removed_at_the_end(tmp_path: Path):
    with serve(str(tmp_path)) as first, serve(str(tmp_path)) as second:
        assert first.token != second.token
        for page in (first, second):
            assert page.token_file.read_text() == page.token
            assert stat.S_IMODE(page.token_file.stat().st_mode) == 0o600
            assert page.token_file.parent == tmp_path

    assert list(tmp_path.iterdir()) == []


def test_s5_a_symbolic_link_at_the_token_file_is_replaced_and_not_followed(tmp_path: Path):
    (tmp_path / "page-token-1").symlink_to(tmp_path / "elsewhere")

    with token_file(str(tmp_path), 1, "secret") as file:
        assert file.read_text() == "secret"
        assert not file.is_symlink()
    assert not (tmp_path / "elsewhere").exists()


def test_s5_the_token_of_a_remote_storage_is_in_a_private_temporary_folder():
    with token_file("s3://bucket/storage", 1, "secret") as file:
        assert file.read_text() == "secret"
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert not file.parent.exists()


def test_s5_only_a_terminal_is_shown_the_token():
    page = ServedPage("http://127.0.0.1:1", "secret-token", Path("storage/page-token-1"))

    assert page.format_address(terminal=True) == "http://127.0.0.1:1/#token=secret-token"
    assert page.format_address(terminal=False) == "http://127.0.0.1:1/ (the token is in storage/page-token-1)"


def test_s6_s7_every_response_has_the_security_headers(site: Site):
    for answer in (
        request(site.port, "/"),
        site.get("/metrics"),
        request(site.port, "/nowhere"),
        request(site.port, "/", host="x"),
    ):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "server" not in answer.headers


def test_s6_the_page_builds_no_html_from_values_and_loads_nothing_from_other_hosts():
    from importlib import resources

    for file in resources.files("penstock.page").joinpath("static").iterdir():
        if file.name.startswith("uplot"):
            continue
        text = file.read_text(encoding="utf-8")
        for risky in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "javascript:",
            "style=",
        ):
            assert risky not in text, f"{file.name} has {risky}"
        assert "://" not in text.replace("http://www.w3.org/2000/svg", ""), file.name


@pytest.mark.parametrize(
    "path",
    [
        "/static/../../etc/passwd",
        "/static/%2e%2e/%2e%2e/etc/passwd",
        "/static/..%5c..%5cetc",
        "/static/%00",
        "/static//etc/passwd",
        "/static/index.html/../../app.py",
        "/app.py",
        "/api/stream?pipeline=../trades",
        "/api/stream?pipeline=..%2Ftrades",
        "/api/stream?pipeline=a%00b",
        "/api/stream?pipeline=" + "a" * 65,
    ],
)
def test_s8_no_path_leads_out_of_the_page(site: Site, path: str):
    answer = site.get(path)

    assert answer.status in (400, 404)
    assert "root:" not in answer.body


def test_s9_the_number_of_streams_is_limited(tmp_path: Path):
    from penstock.page.live import Live, TooManyError
    from penstock.watch.board import Board

    async def many() -> None:
        live = Live(Board(str(tmp_path)), max_viewers=2)
        async with live.subscribe(""), live.subscribe(""):
            with pytest.raises(TooManyError):
                async with live.subscribe(""):
                    pass
        async with live.subscribe(""):
            pass

    import asyncio

    asyncio.run(many())


def test_s9_a_stream_for_another_site_is_rejected(site: Site):
    assert site.get("/api/stream", origin="http://evil.com").status == 403
    assert site.get("/api/stream", sec_fetch_site="cross-site").status == 403
    upgrade = {"upgrade": "websocket", "connection": "upgrade", "sec_websocket_version": "13", "sec_websocket_key": "x"}
    assert site.get("/api/stream", origin="http://evil.com", **upgrade).status in (400, 403)


def test_s10_bodies_and_headers_have_limits(site: Site):
    big = b"x" * (MAX_BODY_BYTES + 1)

    assert request(site.port, "/login", "POST", big, content_type="application/json").status == 413
    assert request(site.port, "/login", "POST", b"x", content_length="1000000000").status == 413
    assert request(site.port, "/login", "POST", b"x", content_encoding="gzip").status == 415
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(big), big)
    head = f"POST /login HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\nTransfer-Encoding: chunked\r\n"
    head += "Content-Type: application/json\r\n\r\n"
    assert raw(site.port, head.encode() + chunked).status == 413
    assert request(site.port, "/", x_long="a" * 1_000_000).status in (400, 431)
    assert request(site.port, "/" + "a" * 100_000).status in (400, 404, 414)


def test_s10_a_slow_request_is_cut_off(site: Site, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("penstock.page.server._REQUEST_TIMEOUT_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", site.port), timeout=30) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: ")
        assert slow.recv(100) == b""
    with socket.create_connection(("127.0.0.1", site.port), timeout=30) as silent:
        assert silent.recv(100) == b""


def test_the_metrics_are_prometheus_text(site: Site):
    answer = site.get("/metrics")

    names = {family.name for family in text_string_to_metric_families(answer.body)}
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "penstock_pipeline_up" in names


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A storage and a pipeline that imports a module and a package of its folder; other users cannot write to them."""
    for folder in ("storage", "code", "code/package"):
        (tmp_path / folder).mkdir(mode=0o755)
    for name in ("a.yaml", "model.py", "package/part.py"):
        (tmp_path / "code" / name).write_text("")
        (tmp_path / "code" / name).chmod(0o644)
    return tmp_path


@pytest.mark.parametrize(
    "path", ["storage", "code", "code/a.yaml", "code/model.py", "code/package", "code/package/part.py"]
)
def test_s22_explore_runs_no_code_that_others_can_change(project: Path, path: str):
    file, storage = str(project / "code/a.yaml"), str(project / "storage")
    assert _find_trust_problem(file, storage) == ""

    for mode in (0o777, 0o775):
        (project / path).chmod(mode)
        problem = _find_trust_problem(file, storage)

        assert problem.startswith(f"{project / path} can be changed by other users: ")
        assert problem.endswith(f"(mode {mode:03o}), and a pipeline is code; run chmod go-w {project / path}")


def test_s22_explore_follows_a_link_to_the_folder_of_the_file(project: Path, tmp_path: Path):
    (project / "linked").mkdir(mode=0o755)
    (project / "linked/a.yaml").symlink_to(project / "code/a.yaml")
    (project / "code").chmod(0o777)

    assert f"{project}/code can be changed" in _find_trust_problem(
        str(project / "linked/a.yaml"), "s3://bucket/storage"
    )


def test_s22_an_unknown_or_missing_file_is_not_run(project: Path):
    assert "run it again" in _find_trust_problem("", str(project / "storage"))
    assert "not on this machine" in _find_trust_problem(str(project / "none.yaml"), str(project / "storage"))


def test_explore_of_an_unknown_pipeline_or_a_long_select_starts_nothing(site: Site):
    assert site.post("/api/explore", {"pipeline": "nope"}).status == 404
    assert site.post("/api/explore", {"pipeline": "../trades"}).status == 404
    assert site.post("/api/explore", {"pipeline": "trades", "sql": "x" * 30_000}).status == 400
    assert site.post("/api/explore", ["x"]).status == 400
    assert "has ended" in site.get("/api/explore/0123").body or site.get("/api/explore/0123").status == 200


@pytest.mark.parametrize(
    "body", [rb'{"token": "\ud800"}', rb'{"token": "\udfff\ud800", "x": 1}', b'{"token": "\xed\xa0\x80"}']
)
def test_s5_a_lone_surrogate_is_not_the_token(site: Site, body: bytes):
    assert request(site.port, "/login", "POST", body, content_type="application/json").status == 401
    assert site.post("/api/explore", {"pipeline": "trades", "sql": "\ud800"}).status == 400
