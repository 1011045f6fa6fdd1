// Reports a dead letter to Lazaret: Go 1.19 or newer, standard library only. Run with: go run report.go
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"time"
)

var client = &http.Client{Timeout: 30 * time.Second}

// report returns the server's answer. Safe to repeat: a report that was stored before is a duplicate.
func report(entry any, source string) (string, error) {
	body, err := json.Marshal(entry)
	if err != nil {
		return "", err
	}
	url := os.Getenv("LAZARET_URL")
	if url == "" {
		url = "http://127.0.0.1:7070"
	}
	for pause := 1; ; pause *= 2 {
		last, wait := pause > 16, pause
		request, err := http.NewRequest("POST", url+"/api/v1/dead-letters?source="+source, bytes.NewReader(body))
		if err != nil {
			return "", err
		}
		request.Header.Set("Content-Type", "application/json")
		if token := os.Getenv("LAZARET_TOKEN"); token != "" { // role producer; not needed until the first token exists
			request.Header.Set("Authorization", "Bearer "+token)
		}
		status, answer, retryAfter, err := send(request)
		switch {
		case err == nil && status/100 == 2:
			return answer, nil
		case err != nil: // connection refused, reset or timed out
			if last {
				return "", err
			}
		case last || status != 408 && status != 429 && status != 502 && status != 503 && status != 504:
			return "", fmt.Errorf("report refused: %d %s", status, answer)
		case retryAfter > wait:
			wait = retryAfter
		}
		time.Sleep(time.Duration(wait) * time.Second)
	}
}

func send(request *http.Request) (status int, answer string, retryAfter int, err error) {
	response, err := client.Do(request)
	if err != nil {
		return 0, "", 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	retryAfter, _ = strconv.Atoi(response.Header.Get("Retry-After")) // 0 if absent
	return response.StatusCode, string(text), retryAfter, err
}

var errNoCurrency = errors.New("invoice 4711 has no currency")

func handle(event map[string]any) error {
	return errNoCurrency
}

func main() {
	event := map[string]any{"eventId": "evt-go-1", "pattern": "invoice.created", "payload": map[string]any{"invoice": 4711}}
	if err := handle(event); err != nil { // after the last retry of your own
		answer, err := report(map[string]any{
			"eventId":       event["eventId"],
			"subscriberId":  "billing",
			"originalEvent": event,
			"error":         map[string]any{"type": "NoCurrency", "message": err.Error(), "stackTrace": string(debug.Stack())},
			"retryCount":    3,
			"maxRetries":    3,
		}, "report")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(answer)
	}
}
