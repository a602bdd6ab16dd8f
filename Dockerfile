# An image with Weft for CPUs:  docker build -t weft . && docker run --rm weft doctor ranks=2
# The program, its library and headers are in /usr/local, the configs in the working folder. It runs as the user weft.
FROM debian:bookworm AS build
COPY . /src
WORKDIR /src
RUN launcher/setup.sh
RUN cmake --preset release -DWEFT_CUDA=OFF -DWEFT_TESTS=OFF && cmake --build --preset release
RUN cmake --install build/release --prefix /opt/weft --strip

FROM debian:bookworm
# What the program links or opens, and mpirun, which ranks=N starts.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends openmpi-bin libgloo0 libdnnl2 libopenblas0-pthread \
  libabsl20220623 libfmt9 libyaml-cpp0.7 libpcre2-8-0 libsentencepiece0 libisal2 libssl3 libzstd1 zlib1g && \
  rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/weft /usr/local
RUN ldconfig && useradd --create-home weft
USER weft
WORKDIR /home/weft
COPY --chown=weft:weft configs configs
ENTRYPOINT ["weft"]
CMD ["--help"]
