"""Starts gcp-storage-emulator on a free port with a bucket `letters`, prints the port, and ends with its input.

The emulator speaks Google's JSON API. Our client speaks the XML API, of which the emulator has upload and download: the headers
that Google answers with, the precondition of an upload and the deletion are added here.
"""

import sys
from email.utils import formatdate
from http import HTTPStatus

from gcp_storage_emulator import server
from gcp_storage_emulator.exceptions import NotFound
from gcp_storage_emulator.handlers import objects


def find(request, storage):
    try:
        return storage.get_file_obj(request.params["bucket_name"], request.params["object_id"])
    except NotFound:
        return None


def describe(response, found):
    response["ETag"] = '"%s"' % found["etag"]
    response["Last-Modified"] = formatdate(usegmt=True)
    response["x-goog-generation"] = found["generation"]


def upload(request, response, storage):
    if request.get_header("x-goog-if-generation-match") == "0" and find(request, storage):
        response.status = HTTPStatus.PRECONDITION_FAILED
        return
    objects.xml_upload(request, response, storage)
    if response.status == HTTPStatus.OK:
        describe(response, find(request, storage))


def download(request, response, storage):
    found = find(request, storage)
    if not found:
        response.status = HTTPStatus.NOT_FOUND
        return
    objects.download(request, response, storage)
    describe(response, found)


def delete(request, response, storage):
    objects.delete(request, response, storage)
    if response.status == HTTPStatus.OK:
        response.status = HTTPStatus.NO_CONTENT


paths, _ = server.HANDLERS[-1]
server.HANDLERS = server.HANDLERS[:-1] + (
    (paths, {server.GET: download, server.PUT: upload, server.DELETE: delete}),
)
with server.create_server("127.0.0.1", 0, default_bucket="letters", data_dir=sys.argv[1]) as running:
    print(running._api._httpd.server_address[1], flush=True)
    sys.stdin.read()
