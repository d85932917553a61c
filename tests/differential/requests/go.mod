module watchcache/requests

go 1.26
