"""Image, compose file and manifests: well formed, of one mind with the code and with each other, and safe by default.

`tests/integration/test_deployment.py` runs what stands in them.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from compose_spec import PyCompose

from takeaways.schemas.queues import Kind
from takeaways.workers.metrics import collector
from takeaways.workers.settings import Settings, unknown_variables
from tests import compose
from tests.command_line import understood

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = DEPLOY / "Dockerfile"
KUBERNETES = DEPLOY / "kubernetes"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
IMAGE = f"takeaways:{PROJECT['version']}"
GIVEN = {name: "given" for name, default in compose.variables_of(compose.FILE.read_text("utf-8")).items()}
COMPOSE = compose.read(GIVEN)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"].startswith("takeaways:")}
# What Flower's configuration reads, as its head lists it.
FLOWER = set(re.findall(r"`(FLOWER_\w+)`", (DEPLOY / "flower" / "flowerconfig.py").read_text("utf-8")))
SECRET_NAMES = re.compile(r"PASSWORD|KEY|TOKEN|BASIC_AUTH$|_URL$")


def manifests(*folders: str) -> list[dict[str, Any]]:
    """The objects of these folders of Kubernetes; without a name those of all of them."""
    files = [
        file
        for folder in folders or ("",)
        for file in sorted((KUBERNETES / folder).rglob("*.yaml"))
        if file.name != "kustomization.yaml"
    ]
    return [found for file in files for found in yaml.safe_load_all(file.read_text("utf-8"))]


def workloads() -> Iterator[tuple[str, dict[str, Any]]]:
    """The pods that are described, by the name of their Deployment or Job."""
    for found in manifests():
        if found["kind"] in ("Deployment", "Job"):
            yield found["metadata"]["name"], found["spec"]["template"]["spec"]


WORKLOADS = dict(workloads())
CONTAINERS = {name: pod["containers"][0] for name, pod in WORKLOADS.items()}


# --- the image ----------------------------------------------------------------------------------


def test_the_dockerfile_keeps_to_good_practice() -> None:
    """hadolint finds nothing, at any level."""
    hadolint = Path(sys.executable).with_name("hadolint")

    done = subprocess.run(
        [str(hadolint), "--failure-threshold", "style", str(DOCKERFILE)], capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout


def test_the_image_runs_as_nobody_in_particular_and_installs_what_was_pinned() -> None:
    """A container that is broken into is no root, and holds the packages that were tested."""
    text = DOCKERFILE.read_text("utf-8")
    python = re.search(r"^ARG PYTHON=(\d+\.\d+)-slim", text, re.MULTILINE)

    assert re.findall(r"^USER (\S+)$", text, re.MULTILINE) == ["10001:10001"]
    assert re.findall(r"pip .*install --require-hashes -r (\S+)", text) == [
        "requirements/image.txt",
        "requirements/build.txt",
    ]
    assert python is not None
    assert f"Programming Language :: Python :: {python[1]}" in PROJECT["classifiers"]


def test_what_the_image_copies_is_let_through_and_nothing_else() -> None:
    """A file that .dockerignore holds back breaks the build; one that it does not may carry a secret into it."""
    copied = {
        source
        for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE.read_text("utf-8"), re.MULTILINE)
        for source in sources.split()
    }
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()

    assert {line.removeprefix("!") for line in lines if line.startswith("!")} == copied
    assert "*" in lines
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_the_image_holds_what_the_commands_of_containers_need() -> None:
    """Flower and the workers are in the requirements, and tools for development are not."""
    pinned = set(re.findall(r"^(\S+)==", (ROOT / "requirements" / "image.txt").read_text(), re.MULTILINE))

    assert {"flower", "celery", "anthropic", "psycopg-binary", "alembic"} <= pinned
    assert {"hatchling", "pytest", "mypy", "ruff"} & pinned == set()


# --- compose ------------------------------------------------------------------------------------


def test_the_compose_file_follows_the_specification() -> None:
    """Compose reads it: fields, durations, conditions, and names of volumes and secrets are right."""
    PyCompose.from_json(json.dumps(COMPOSE)).validate()


def test_compose_stops_where_a_password_is_missing() -> None:
    """No deployment comes up with a password that stands in a public file."""
    variables = compose.variables_of(compose.FILE.read_text("utf-8"))
    secret = {name for name in variables if SECRET_NAMES.search(name)}

    assert {name for name, default in variables.items() if default is None} == secret
    for name in secret:
        with pytest.raises(compose.MissingVariable, match="run deploy/secrets"):
            compose.read({**GIVEN, name: ""})


def test_secrets_are_made_up_once(tmp_path: Path) -> None:
    """All that compose asks for, each another, readable by nobody else; a second run locks nobody out."""
    made = compose.made_secrets(tmp_path)
    again = compose.made_secrets(tmp_path)

    wanted = {name for name in GIVEN if SECRET_NAMES.search(name)}
    assert set(made) == wanted
    assert len(set(made.values())) == len(made)
    assert all(re.fullmatch(r"[0-9a-f]{48}", value) for value in made.values())
    assert again == made
    assert (tmp_path / ".env").stat().st_mode & 0o077 == 0
    assert (tmp_path / "deploy" / "secrets").stat().st_mode & 0o077 == 0
    assert (tmp_path / COMPOSE["secrets"]["flower-password"]["file"]).read_text() == made["FLOWER_PASSWORD"]


def test_passwords_of_ones_own_are_kept(tmp_path: Path) -> None:
    """What an operator wrote into .env stays, also where an editor left out the end of the line."""
    (tmp_path / ".env").write_text("REDIS_MAXMEMORY=4gb\nFLOWER_PASSWORD=chosen-by-an-operator", "utf-8")

    made = compose.made_secrets(tmp_path)

    assert made["REDIS_MAXMEMORY"] == "4gb"
    assert made["FLOWER_PASSWORD"] == "chosen-by-an-operator"
    assert compose.read(made)["services"]["valkey"]["environment"]["REDIS_MAXMEMORY"] == "4gb"


def test_files_with_secrets_stay_out_of_git() -> None:
    """A password that was committed once is public for ever."""
    ignored = (ROOT / ".gitignore").read_text("utf-8").splitlines()
    env_files = {file["path"] for service in SERVICES.values() for file in service.get("env_file", ())}

    assert {".env", "deploy/secrets/", *env_files} <= set(ignored)


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_of_compose_has_no_more_rights_than_it_needs(name: str) -> None:
    """Whoever breaks into one finds no root, no file to write to, and no port that is open to the network."""
    service = SERVICES[name]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service.get("privileged")
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    assert ":" in service["image"]
    assert not service["image"].endswith(":latest")


@pytest.mark.parametrize("name", [name for name in SERVICES if name not in ("migrate", "takeaways")])
def test_each_service_that_stays_has_a_health_check(name: str) -> None:
    """`docker compose ps` says of each whether it works."""
    kind, *command = SERVICES[name]["healthcheck"]["test"]

    assert kind in ("CMD", "CMD-SHELL")
    if command[0] == "takeaways":
        understood(command[1:])


@pytest.mark.parametrize("name", [name for name in OURS if name not in ("migrate", "flower")])
def test_nothing_of_ours_starts_before_the_tables_are_there(name: str) -> None:
    """The migration runs first, by its own role, and the others wait for its end."""
    assert SERVICES[name]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}


def test_the_first_second_of_a_database_is_not_taken_for_the_server() -> None:
    """While roles are made PostgreSQL answers on its socket only: a check of that would let others start too early."""
    assert "127.0.0.1" in SERVICES["postgres"]["healthcheck"]["test"]
    assert any("/docker-entrypoint-initdb.d/" in volume for volume in SERVICES["postgres"]["volumes"])


def test_every_mounted_file_exists() -> None:
    """Docker makes a folder of a file that is not there, and the container fails for a reason nobody guesses."""
    sources = [volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", ())]

    assert [name for name in sources if name.startswith(".") and not (ROOT / name).exists()] == []
    assert {name for name in sources if not name.startswith(".")} == set(COMPOSE["volumes"])


# --- both ---------------------------------------------------------------------------------------


def environments() -> dict[str, dict[str, str]]:
    """What each container of ours is given, by where it stands."""
    found = {f"compose {name}": service["environment"] for name, service in OURS.items()}
    for name, container in CONTAINERS.items():
        found[f"kubernetes {name}"] = {one["name"]: one["value"] for one in container.get("env", ())}
    for file in KUBERNETES.rglob("*.env"):
        lines = file.read_text("utf-8").splitlines()
        found[f"kubernetes {file.name}"] = dict(line.split("=", 1) for line in lines)
    set_in_image = re.findall(
        r"^(?:ENV|   ) ((?:TAKEAWAYS|FLOWER)\w+)=(\S+)", DOCKERFILE.read_text("utf-8"), re.MULTILINE
    )
    return {**found, "image": dict(set_in_image)}


@pytest.mark.parametrize("where", environments())
def test_every_variable_is_a_setting(where: str) -> None:
    """A misspelt one does nothing, and the operator believes that it does."""
    environment = environments()[where]
    flowers = {name for name in environment if name.startswith("FLOWER_")}
    ours = {name for name in environment if name.startswith("TAKEAWAYS_")}

    assert unknown_variables(environment) == []
    assert flowers <= FLOWER
    assert flowers | ours == set(environment)
    Settings.model_validate({name.removeprefix("TAKEAWAYS_").lower(): environment[name] for name in ours})


def commands() -> dict[str, list[str]]:
    """Every command line that a container of ours runs."""
    found = {f"compose {name}": [*s.get("entrypoint", ()), *s["command"]] for name, s in OURS.items()}
    for name, container in CONTAINERS.items():
        found[f"kubernetes {name}"] = container["args"]
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            if command := container.get(probe, {}).get("exec", {}).get("command"):
                found[f"kubernetes {name} {probe}"] = command
    return found


@pytest.mark.parametrize("where", commands())
def test_every_command_is_understood(where: str) -> None:
    """A container whose command is not known restarts for ever."""
    program, *words = commands()[where]

    if program == "takeaways":
        if words != ["--help"]:
            understood(words)
    else:
        assert [program, *words] == [
            *("celery", "-A", "takeaways.workers.app", "flower"),
            f"--conf={next(iter(compose.IMAGE_PATHS))}",
        ]


def test_the_configuration_of_flower_lies_where_its_command_looks() -> None:
    """The image has it at the path that compose file and manifests name."""
    for inside, file in compose.IMAGE_PATHS.items():
        assert f"COPY {file.relative_to(ROOT)} {inside}" in DOCKERFILE.read_text("utf-8")


def test_the_image_has_one_name_and_the_version_of_the_project() -> None:
    """What is built is what is run, and its tag says what is in it."""
    assert {service["image"] for service in OURS.values()} == {IMAGE}
    assert {container["image"] for container in CONTAINERS.values()} == {IMAGE}
    assert IMAGE in DOCKERFILE.read_text("utf-8")
    assert [name for name, service in SERVICES.items() if "build" in service] == ["migrate"]


@pytest.mark.parametrize("pool", list(Kind))
def test_a_pool_is_given_the_time_to_drain(pool: Kind) -> None:
    """A pool that is killed in the middle of a drain leaves its agents locked until their leases run out."""
    drain_seconds = Settings().drain_seconds

    assert compose.seconds(SERVICES[pool]["stop_grace_period"]) > drain_seconds
    assert WORKLOADS[pool]["terminationGracePeriodSeconds"] > drain_seconds


def test_every_target_of_prometheus_is_a_service() -> None:
    """Names and ports of its configuration are those of the compose file and of the manifests."""
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text("utf-8"))
    targets = set()
    for job in config["scrape_configs"]:
        for static in job.get("static_configs", ()):
            targets |= {(target.split(":")[0], int(target.split(":")[1])) for target in static["targets"]}
        for found in job.get("dns_sd_configs", ()):
            targets |= {(name, found["port"]) for name in found["names"]}
    offered = {
        (found["metadata"]["name"], port["port"])
        for found in manifests("base")
        if found["kind"] == "Service"
        for port in found["spec"]["ports"]
    }
    password_file = next(job["basic_auth"] for job in config["scrape_configs"] if "basic_auth" in job)

    assert {name for name, _ in targets} <= set(OURS)
    assert targets == offered
    assert [one["target"] for one in SERVICES["prometheus"]["secrets"]] == [password_file["password_file"]]
    assert SERVICES["flower"]["environment"]["FLOWER_BASIC_AUTH"].startswith(f"{password_file['username']}:")


def test_ports_are_those_of_the_settings() -> None:
    """A pool serves its metrics where it is scraped, on every address of its container."""
    first = Settings().metrics_port
    for number, pool in enumerate(Kind):
        assert CONTAINERS[pool]["ports"][0]["containerPort"] == first + number
        assert SERVICES[pool]["environment"]["TAKEAWAYS_METRICS_HOST"] == "0.0.0.0"  # noqa: S104 - in a container
    assert "TAKEAWAYS_METRICS_HOST=0.0.0.0" in (KUBERNETES / "base" / "settings.env").read_text("utf-8")


def test_grafana_finds_its_dashboard_and_its_data() -> None:
    """The files that provision it name the mounted dashboard and a service that exists."""
    provisioning = DEPLOY / "grafana" / "provisioning"
    provider = yaml.safe_load((provisioning / "dashboards" / "takeaways.yml").read_text("utf-8"))
    source = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text("utf-8"))
    mounted = {volume.split(":")[1] for volume in SERVICES["grafana"]["volumes"]}

    assert "/etc/grafana/provisioning" in mounted
    assert {str(Path(path).parent) for path in mounted if path.endswith(".json")} == {
        provider["providers"][0]["options"]["path"]
    }
    assert source["datasources"][0]["url"] == "http://prometheus:9090"


# --- Kubernetes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "found", manifests(), ids=lambda found: f"{found['kind']}/{found['metadata']['name']}"
)
def test_a_manifest_follows_the_schema_of_kubernetes(found: dict[str, Any]) -> None:
    """The server would refuse an unknown field, or worse, leave it out."""
    if found["apiVersion"].startswith("keda.sh/"):
        with pytest.raises(kubernetes_validate.SchemaNotFoundError):
            kubernetes_validate.validate(found, kubernetes_validate.latest_version(), strict=True)
        return

    kubernetes_validate.validate(found, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("folder", ["base", "keda", "overlays/example"])
def test_a_kustomization_lists_every_file_of_its_folder(folder: str) -> None:
    """A manifest that is not listed is not applied, and nobody notices."""
    listed = yaml.safe_load((KUBERNETES / folder / "kustomization.yaml").read_text("utf-8"))
    files = {file.name for file in (KUBERNETES / folder).iterdir() if file.is_file()}
    generated = {name for one in listed.get("configMapGenerator", ()) for name in one.get("envs", ())}
    others = {name for name in (*listed["resources"], *listed.get("components", ())) if "/" in name}

    assert {*listed["resources"], *generated, "kustomization.yaml"} - others == files
    assert all((KUBERNETES / folder / name / "kustomization.yaml").exists() for name in others)


def kubectl(*arguments: str) -> str:
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("no kubectl, which has Kustomize in it")
    version = subprocess.run(
        [program, "version", "--client", "--output=json"], capture_output=True, text=True
    )
    if not json.loads(version.stdout or "{}").get("kustomizeVersion", "v4").startswith("v5"):
        pytest.skip("kubectl is too old for components")
    done = subprocess.run([program, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kustomize_builds_the_example() -> None:
    """An operator who copies it gets both pools from the registry, with settings put in and KEDA in charge."""
    built = list(yaml.safe_load_all(kubectl("kustomize", str(KUBERNETES / "overlays" / "example"))))
    deployments = {one["metadata"]["name"]: one for one in built if one["kind"] == "Deployment"}
    settings = next(one for one in built if one["kind"] == "ConfigMap")

    for found in built:
        if not found["apiVersion"].startswith("keda.sh/"):
            kubernetes_validate.validate(found, kubernetes_validate.latest_version(), strict=True)
    assert {one["metadata"].get("namespace", "takeaways") for one in built} == {"takeaways"}
    assert settings["data"]["TAKEAWAYS_MODEL"] != "offline"
    assert settings["data"]["TAKEAWAYS_BOOT_ID"] == "1"
    assert unknown_variables(settings["data"]) == []
    for pool in Kind:
        container = deployments[pool]["spec"]["template"]["spec"]["containers"][0]
        assert container["image"] == f"registry.example.com/{IMAGE}"
        assert container["envFrom"][0]["configMapRef"]["name"] == settings["metadata"]["name"]
        assert "replicas" not in deployments[pool]["spec"]


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_pod_has_no_more_rights_than_it_needs(name: str) -> None:
    """It keeps to the restricted standard, which the example's namespace enforces."""
    pod, container = WORKLOADS[name], CONTAINERS[name]
    own = container["securityContext"]

    assert len(pod["containers"]) == 1
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert own["readOnlyRootFilesystem"] is True
    assert own["allowPrivilegeEscalation"] is False
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert {"requests", "limits"} == set(container["resources"])
    assert "/tmp" in [mount["mountPath"] for mount in container["volumeMounts"]]
    assert {mount["name"] for mount in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}


def test_secrets_are_named_and_never_written_down() -> None:
    """A manifest in a repository holds no password."""
    assert [found for found in manifests() if found["kind"] == "Secret"] == []
    for where, environment in environments().items():
        if where.startswith(("kubernetes", "image")):
            assert [name for name in environment if SECRET_NAMES.search(name)] == []
    page = (ROOT / "docs" / "deployment.md").read_text("utf-8")
    named = {
        source["secretRef"]["name"]
        for container in CONTAINERS.values()
        for source in container["envFrom"]
        if "secretRef" in source
    }
    assert sorted(name for name in named if f"secret generic {name}" not in page) == []


def test_selectors_find_the_pods_that_they_are_for() -> None:
    """A budget, a service or a policy that selects nothing looks right and does nothing."""
    labels = {
        found["metadata"]["name"]: found["spec"]["template"]["metadata"]["labels"]
        for found in manifests("base")
        if found["kind"] in ("Deployment", "Job")
    }
    for found in manifests("base"):
        if found["kind"] not in ("Deployment", "PodDisruptionBudget", "Service", "NetworkPolicy"):
            continue
        spec = found["spec"]
        selector = spec.get("podSelector") or spec["selector"]
        wanted = selector.get("matchLabels", selector)
        selected = {name for name, own in labels.items() if wanted.items() <= own.items()}
        everybody = found["kind"] == "NetworkPolicy"
        assert selected == (set(labels) if everybody else {found["metadata"]["name"]})


@pytest.mark.parametrize("name", WORKLOADS)
def test_no_variable_comes_from_the_name_of_a_service(name: str) -> None:
    """Kubernetes sets FLOWER_PORT=tcp://… for a service called flower, and Flower would read that as its port."""
    assert WORKLOADS[name]["enableServiceLinks"] is False


@pytest.mark.parametrize("pool", list(Kind))
def test_a_pool_is_spread_kept_and_replaced_one_by_one(pool: Kind) -> None:
    """A drained node or a rollout takes one replica at a time, and a new one works before an old one goes."""
    found = {one["kind"]: one["spec"] for one in manifests("base") if one["metadata"]["name"] == pool}

    assert found["PodDisruptionBudget"]["maxUnavailable"] == 1
    assert found["Deployment"]["replicas"] >= 2
    assert found["Deployment"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert CONTAINERS[pool]["readinessProbe"]["exec"]["command"] == ["takeaways", "ready", pool]
    assert "livenessProbe" not in CONTAINERS[pool]


@pytest.mark.parametrize("pool", list(Kind))
def test_a_pool_scales_by_the_work_that_there_is(pool: Kind) -> None:
    """KEDA asks for metrics that exist, about this pool, and for as many replicas as there are slots to fill."""
    spec = next(one["spec"] for one in manifests("keda") if one["metadata"]["name"] == pool)
    asked = spec["triggers"][0]["metadata"]
    served = Path(collector.__file__).read_text("utf-8")

    assert spec["scaleTargetRef"]["name"] in CONTAINERS
    assert spec["minReplicaCount"] >= 1
    assert set(re.findall(r'kind="(\w+)"', asked["query"])) == {pool.value}
    assert "takeaways_agents_due" in asked["query"]
    assert all(f'"{family}"' in served for family in re.findall(r"takeaways_\w+", asked["query"]))
    assert int(asked["threshold"]) == Settings().concurrency
