// Prints offsets of zones at times: go run zones.go > zones.txt. The zones are those of Go's own copy of the IANA database.
package main

import (
	"fmt"
	"time"
	_ "time/tzdata"
)

func main() {
	zones := []string{"America/New_York", "America/St_Johns", "Australia/Sydney", "Asia/Kathmandu", "US/Central", "Europe/Berlin", "Europe/London",
		"Asia/Tokyo", "Pacific/Apia", "America/Sao_Paulo", "Asia/Gaza", "Antarctica/Troll", "Etc/GMT+5", "EST5EDT", "Africa/Cairo"}
	times := []int64{-62135596800, -2500000000, -1000000000, 0, 500000000, 1234567890, 1583650800, 1604214000, 1700000000, 1711846799, 1711846800, 1718000000, 1730000000,
		2500000000, 2520000000, 4100000000, 4110000000, 253402300799}
	for _, name := range zones {
		zone, err := time.LoadLocation(name)
		if err != nil {
			panic(err)
		}
		for _, at := range times {
			_, offset := time.Unix(at, 0).In(zone).Zone()
			fmt.Println(name, at, offset)
		}
	}
}
