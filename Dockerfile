# The page on PyTorch for CPUs: docker build -t balcony . && docker run --rm -p 7860:7860 balcony
FROM python:3.11-slim

RUN useradd --create-home balcony
WORKDIR /home/balcony
COPY requirements.txt .
# pytest is for the tests, which the image does not have.
RUN grep -v '^pytest==' requirements.txt > served.txt
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu -r served.txt
COPY app.py LICENSE README.md ./
COPY bert_core bert_core
COPY balcony balcony
COPY assets assets
COPY checkpoints checkpoints

USER balcony
EXPOSE 7860
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request as ask; ask.urlopen('http://127.0.0.1:7860/health', timeout=5)"]
# With a port of its own it does not take another one, which -p would not reach.
CMD ["python", "app.py", "--no-browser", "--host", "0.0.0.0", "--port", "7860", "--limits", "public"]
