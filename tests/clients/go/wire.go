package main

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// wire is the informer's way to the server: it counts how the informer loads its state, cuts connections, and makes one watch old.
type wire struct {
	dialer   net.Dialer
	mutex    sync.Mutex
	open     map[net.Conn]bool
	streamed atomic.Int64 // watches with initial events
	listed   atomic.Int64 // first pages of lists
	age      atomic.Bool  // the next watch from a revision asks for revision 1, which no server keeps
}

func newWire() *wire { return &wire{open: map[net.Conn]bool{}} }

// loads is how often the informer began to load the whole state.
func (w *wire) loads() int64 { return w.streamed.Load() + w.listed.Load() }

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := w.dialer.DialContext(ctx, network, address)
	if err == nil {
		w.mutex.Lock()
		w.open[conn] = true
		w.mutex.Unlock()
	}
	return conn, err
}

// cut closes every connection without a farewell; says how many.
func (w *wire) cut() int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	count := len(w.open)
	for conn := range w.open {
		conn.Close()
	}
	clear(w.open)
	return count
}

func (w *wire) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		query := request.URL.Query()
		watch := query.Get("watch") != ""
		switch {
		case watch && query.Get("sendInitialEvents") == "true":
			w.streamed.Add(1)
		case watch && w.age.CompareAndSwap(true, false):
			request = request.Clone(request.Context())
			query.Set("resourceVersion", "1")
			request.URL.RawQuery = query.Encode()
		case !watch && query.Get("continue") == "":
			w.listed.Add(1)
		}
		return next.RoundTrip(request)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
