# docker build -t graphbench .                                                   CPU
# docker build -t graphbench --build-arg INDEX=https://download.pytorch.org/whl/cu128 .    CUDA
# docker run --rm -v "$PWD:/work" graphbench train quickstart
FROM python:3.12-slim
ARG INDEX=https://download.pytorch.org/whl/cpu
COPY . /source
RUN pip install --no-cache-dir --extra-index-url "$INDEX" '/source[molecules,plots,sweeps]' && rm -r /source
WORKDIR /work
ENTRYPOINT ["graphbench"]
