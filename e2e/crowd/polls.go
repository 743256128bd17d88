package crowd

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// Poll polls for a configuration on a connection, as an agent does, for as long as it lasts. The
// first poll of "" has the document for its answer, whose tag is returned.
func Poll(conn net.Conn, tag string) (known string, err error) {
	answers := bufio.NewReaderSize(conn, 512)
	if tag == "" {
		if tag, err = ask(conn, answers, ""); err != nil {
			return "", err
		}
	}
	go func() {
		for err := error(nil); err == nil; {
			_, err = ask(conn, answers, tag)
		}
	}()
	return tag, nil
}

// ask polls once, with the tag if there is one, and returns the answer's tag.
func ask(conn net.Conn, answers *bufio.Reader, tag string) (string, error) {
	known := ""
	if tag != "" {
		known = "If-None-Match: " + tag + "\r\n"
	}
	if _, err := io.WriteString(conn, "GET /v1/node/config HTTP/1.1\r\nHost: controller\r\n"+known+"\r\n"); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(answers, nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.Header.Get("ETag"), err
}

// Again tries a few times: on a busy machine a handshake may take too long.
func Again[T any](try func() (T, error)) (out T, err error) {
	for range 5 {
		if out, err = try(); err == nil {
			break
		}
	}
	return out, err
}
