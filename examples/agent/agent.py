"""An agent with the unmodified SDK of OpenAI: it must find a number, and learns nothing of training.

It runs as a service, which the environment agent asks to play an episode:

    python examples/agent/agent.py 8002
    vagen train … env.name=agent env.config.url=http://127.0.0.1:8002/
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from openai import OpenAI

COLOURS = ["red", "blue", "green", "grey"]
client = OpenAI(base_url="http://127.0.0.1/v1", api_key="-")


def play(model: OpenAI, secret: int) -> dict:
    """Lets the model guess at most twice. The reward is 1 for the first guess, 0.5 for the second."""
    messages = [
        {"role": "system", "content": "Find the number."},
        {"role": "user", "content": f"The box is {COLOURS[secret]}."},
    ]
    for turn in range(2):
        answer = model.chat.completions.create(model="policy", messages=messages).choices[0].message
        if answer.content == str(secret + 1):
            return {"reward": 1 / (turn + 1), "success": turn == 0}
        messages += [answer, {"role": "user", "content": "wrong"}]
    return {"reward": 0, "success": False}


class Service(BaseHTTPRequestHandler):
    def do_POST(self):
        episode = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        model = client.with_options(base_url=episode["base_url"], api_key=episode["key"])
        body = json.dumps(play(model, episode["seed"] % len(COLOURS))).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    ThreadingHTTPServer.request_queue_size = 256  # all episodes of a batch begin at once
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Service).serve_forever()
