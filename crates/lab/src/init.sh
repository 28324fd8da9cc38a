#!/bin/busybox sh
# The guest's first process: mounts what programs expect, runs /run.sh, and sends what it said and left through
# the serial ports of guest.rs.
export PATH=/bin:/usr/bin HOME=/root
/bin/busybox mkdir -p /proc /sys /dev /tmp /root /out
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
mount -t tracefs tracing /sys/kernel/tracing
mount -t cgroup2 groups /sys/fs/cgroup
ln -s /proc/self/fd /dev/fd
ln -s fd/1 /dev/stdout
ln -s fd/2 /dev/stderr

# A name that is opened before the kernel has made its device becomes an ordinary file, and nothing comes through.
for port in 1 2 3 4; do
    tries=0
    until [ -c /dev/vport0p$port ]; do
        tries=$((tries + 1))
        if [ $tries -gt 100 ]; then
            echo "there is no serial port $port" >/dev/console
            reboot -f
        fi
        sleep 0.1
    done
done

# Through pipes: a port can be opened only once, but programs may open their standard output again.
mkfifo /dev/said /dev/complained
cat /dev/said >/dev/vport0p1 &
said=$!
cat /dev/complained >/dev/vport0p2 &
complained=$!
cd /root
setsid sh /run.sh </dev/null >/dev/said 2>/dev/complained
code=$?
wait $said $complained
tar -cf /dev/vport0p3 -C /out .
read -r up _ </proc/uptime
echo "$code $up" >/dev/vport0p4
# QEMU is ended from outside as soon as the code is there; this ends it if not.
reboot -f
