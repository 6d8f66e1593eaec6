# syntax=docker/dockerfile:1
# kappa with its Python packages, its jars and a Java: nothing is fetched when it runs. See docs/containers.md.

# The ground of the image: `--build-arg BASE_IMAGE=python:...@sha256:...` builds on the bytes that you have checked.
ARG BASE_IMAGE=python:3.11.13-slim-bookworm

FROM ${BASE_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
RUN python -m venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH
WORKDIR /opt/kappa

# Packages first: they change less often than the source. Each has the hash that is named for it, what builds it included.
COPY requirements/build.txt requirements/run.txt requirements/
RUN --mount=type=cache,target=/root/.cache/pip \
    pip install --no-build-isolation -r requirements/build.txt \
    && pip install --no-build-isolation -r requirements/run.txt

COPY pyproject.toml README.md LICENSE ./
COPY models models
COPY pipelines pipelines
COPY replay replay
COPY dashboards dashboards
COPY app app
RUN pip install --no-deps --no-build-isolation -e .

# The models as machine code, beside their source, for every processor with AVX2 that runs the image.
RUN python -m models

# The jars by the project's own command, which holds each against its hash. The cache spares the next build the download.
# A layer keeps times to the second, and what was verified is known by size and time: so times are set to whole seconds, and
# the second call notes them.
RUN --mount=type=cache,target=/var/cache/kappa-jars \
    python -m app.embedded.jars /var/cache/kappa-jars \
    && mkdir -p /opt/jars && cp -r /var/cache/kappa-jars/. /opt/jars/ \
    && find /opt/jars -name .lock -delete \
    && find /opt/jars -type f -exec touch --date=2026-01-01T00:00:00Z {} + \
    && python -m app.embedded.jars /opt/jars

FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title=kappa org.opencontainers.image.licenses=Apache-2.0
RUN groupadd --gid 10001 kappa && useradd --uid 10001 --gid 10001 --home-dir /var/lib/kappa --create-home kappa
COPY --from=build /opt/venv /opt/venv
COPY --from=build /opt/kappa /opt/kappa
COPY --from=build --chown=kappa:kappa /opt/jars /opt/jars
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    KAPPA_HOME=/var/lib/kappa KAPPA_JAR_FOLDER=/opt/jars
USER kappa
WORKDIR /var/lib/kappa
VOLUME /var/lib/kappa
# Of `kappa run`, where health.port is 9464: progress is recent, not only that the process lives.
HEALTHCHECK --interval=15s --timeout=10s --start-period=180s --retries=4 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:9464/healthz', timeout=5)"]
ENTRYPOINT ["kappa"]
CMD ["--help"]
