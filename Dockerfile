# Serves a model directory; docs/serving.md has the commands.
FROM python:3.12-slim
WORKDIR /nmt-zoo
COPY requirements.txt .
RUN pip install --no-cache-dir -r requirements.txt
COPY . .
RUN useradd --no-create-home nmt
USER nmt
EXPOSE 8501
HEALTHCHECK --start-period=2m --timeout=60s CMD \
    ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8501/health')"]
ENTRYPOINT ["python", "serve.py", "--host=0.0.0.0", "--model_dir=/model"]
