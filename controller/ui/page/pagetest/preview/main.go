// The command preview shows the pages with the objects of the samples, to look at them without a
// controller: http://broken.localhost:8090/ui/ and so on.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/ui/page/pagetest"
)

func main() {
	pagetest.Now = time.Now()
	worlds := pagetest.Worlds()
	address := "127.0.0.1:8090"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for name := range worlds {
		fmt.Printf("http://%s.localhost:%d/ui/\n", name, listener.Addr().(*net.TCPAddr).Port)
	}
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(r.Host, ".")
		worlds[name].ServeHTTP(w, r)
	})}
	fmt.Fprintln(os.Stderr, server.Serve(listener))
	os.Exit(1)
}
