# The controller's image, built from the repository's root: docker build -t tfdist/controller .
# It needs any base with Python 3.11 and its venv module. Where no registry can be reached, docs/images.md
# describes how the base and the wheels (a folder mounted at /wheels) are made on the machine itself.
ARG BASE_IMAGE=python:3.11-slim-bookworm

# The project's own distributions, installed into a venv that holds nothing else.
FROM ${BASE_IMAGE} AS distributions
ARG PIP_INDEX_URL=
COPY requirements/build.txt /tmp/build.txt
RUN if [ -d /wheels ]; then export PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels; fi \
 && python3 -m venv /tools \
 && python3 -m venv --without-pip /venv \
 && /tools/bin/pip install --no-cache-dir --require-hashes --quiet -r /tmp/build.txt
COPY sdk/pyproject.toml /src/sdk/
COPY sdk/tfdist /src/sdk/tfdist
COPY operator/pyproject.toml /src/operator/
COPY operator/tfdist_operator /src/operator/tfdist_operator
RUN /tools/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --quiet -w /dist /src/sdk /src/operator \
 && /tools/bin/pip --python /venv/bin/python install --no-compile --no-deps --no-index --quiet /dist/*.whl \
 && /venv/bin/python -m compileall -q --invalidation-mode unchecked-hash /venv/lib

# A layer of its own, which a change of the sources does not touch. pip works from a venv that is gone when the
# layer ends, so that /venv holds neither pip nor setuptools. Bytecode is written here because the root file
# system is read-only later, and unchecked because nothing in the image ever changes: no stat at start-up.
FROM ${BASE_IMAGE} AS dependencies
ARG PIP_INDEX_URL=
COPY requirements/operator.txt /venv/requirements.txt
RUN if [ -d /wheels ]; then export PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels; fi \
 && python3 -m venv /tmp/tools \
 && python3 -m venv --without-pip /venv \
 && /tmp/tools/bin/pip --python /venv/bin/python install \
      --no-cache-dir --no-compile --no-deps --require-hashes --quiet -r /venv/requirements.txt \
 && rm -rf /tmp/tools \
 && find /venv/lib -type d -name tests -prune -exec rm -rf {} + \
 && /venv/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash /venv/lib \
 && rm -f /venv/bin/activate* /venv/bin/Activate.ps1
COPY operator/image_root.py /tmp/image_root.py
RUN python3 /tmp/image_root.py /runtime /venv

# Nothing but Python, what it loads, and the virtual environment: no shell, no package manager.
FROM scratch
COPY --from=dependencies /runtime/ /
COPY --from=dependencies /venv /venv
COPY --from=distributions /venv/lib /venv/lib
COPY --from=distributions /venv/bin/tfdist-* /venv/bin/
# HOME and LOGNAME: a numeric user has no entry in /etc/passwd, and on a read-only root no other place.
ENV PATH=/venv/bin PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HOME=/tmp LOGNAME=tfdist \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
USER 65532:65532
ENTRYPOINT ["tfdist-controller"]
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="TFDist controller" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0"
