<?php // SPDX-License-Identifier: BSD-2-Clause
$db = new PDO('pgsql:', null, null, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
$put = $db->prepare("select hwt_put('job', ?, delay => ?, key => ?, if_exists => ?)");
$cancel = $db->prepare("select hwt_cancel_key('job', ?)");

$put->execute(['mail alice', '30 minutes', 'order 17', 'error']);
$put->execute(['mail bob', '2 hours', 'order 17', 'replace']);
$id = $put->fetchColumn();
$put->execute(['mail carol', '1 day', 'order 18', 'error']);
$cancel->execute(['order 18']);
echo $id, ' ', $cancel->fetchColumn(), "\n";
